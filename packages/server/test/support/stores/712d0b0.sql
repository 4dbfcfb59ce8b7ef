-- A store of commit 712d0b0, as pg_dump writes it, without settings and comments.

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

INSERT INTO migrations VALUES (1, 'plants_and_tokens', '1.0.0', 1795399967968);

INSERT INTO plants VALUES ('alice', -9223372036854775808, '{"name":"first"}');
INSERT INTO plants VALUES ('alice', 1, '{"name":"a \"b\" \\ \u0001 ä 😀","tag":""}');
INSERT INTO plants VALUES ('alice', 9007199254740993, '{"name":"","tag":"'';--"}');
INSERT INTO plants VALUES ('alice', 9223372036854775807, '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","tag":"last"}');
INSERT INTO plants VALUES ('bob', 1, '{"name":"Ficus"}');
INSERT INTO plants VALUES ('é ', 1, '{"name":"é"}');

INSERT INTO tokens VALUES ('aaaaaaaaaaaa', '\x1d7ea2639fa116d5790694008e1721af2471675017dec7f8da4c639684737b9f', 'alice', 'plants:read plants:write', 1700000000000, NULL, NULL);
INSERT INTO tokens VALUES ('bbbbbbbbbbbb', '\x5bca71e127eec578001b6b436dcd300d899818b22886369e3d52986308aa5c55', 'bob', 'plants:read', 1700000000000, NULL, NULL);
INSERT INTO tokens VALUES ('cccccccccccc', '\x28f0942e11ac8585c314064bf22e4a56ed7c786c8814c80b587d72752f55b015', 'alice', 'plants:read plants:write', 1700000000000, 1700000000001, NULL);
INSERT INTO tokens VALUES ('dddddddddddd', '\xf0be350d408360608db61b1e8f5c883e6ea3bfdc8f37143c1e27612ef258bc18', 'alice', 'plants:read plants:write', 1700000000000, NULL, 1700000000002);
INSERT INTO tokens VALUES ('eeeeeeeeeeee', '\x09804a1fe5d4b35a044f6a748aa96f48039e7facb781c153a3524bee1dcd102c', 'é ', 'plants:read plants:write', 1700000000000, 8640000000000000, NULL);

ALTER TABLE ONLY migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (subject, id);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);

