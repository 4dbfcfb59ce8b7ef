-- oldest-application: 1.0.0

-- Which plants are long, and how long: a page of a list is bounded in bytes, and need look at the length of no other plant,
-- nor read a long one to learn that it does not fit.
CREATE INDEX long_plants ON plants (subject, id, octet_length(plant)) WHERE octet_length(plant) > 512;
