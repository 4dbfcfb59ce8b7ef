-- oldest-application: 1.0.0

-- Indexes the long plants: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_plants ON plants (subject, id) WHERE octet_length(plant) > 512;
