-- The tables of a store of commit 733eb12, as pg_dump writes them, without settings and comments.

CREATE TABLE migrations (
    version integer NOT NULL,
    name text NOT NULL,
    oldest_application text NOT NULL,
    applied_at bigint NOT NULL
);

CREATE TABLE plants (
    subject text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    plant text NOT NULL
);

CREATE TABLE tokens (
    id text NOT NULL,
    hash bytea NOT NULL,
    subject text NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);

INSERT INTO migrations VALUES (1, 'plants_and_tokens', '1.0.0', 1795399969865);
INSERT INTO migrations VALUES (2, 'plant_pages', '1.0.0', 1795399969872);
INSERT INTO migrations VALUES (3, 'delete_plants', '1.0.0', 1795399969880);

INSERT INTO plants VALUES ('bob', 1, '{"name":"Ficus"}');

INSERT INTO tokens VALUES ('aaaaaaaaaaaa', '\x1d7ea2639fa116d5790694008e1721af2471675017dec7f8da4c639684737b9f', 'alice', 'plants:read plants:write', 1700000000000, NULL, NULL);

ALTER TABLE ONLY migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (subject, id);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
