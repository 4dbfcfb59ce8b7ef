-- oldest-application: 1.0.0

-- Which plants are long: a page of a list is bounded in bytes, and has to look at the lengths of these alone.
CREATE INDEX long_plants ON plants (subject, id) WHERE octet_length(plant) > 512;
