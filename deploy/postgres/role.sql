-- Makes the role of compose.yaml, when PostgreSQL starts on an empty volume: it owns the database of the service, and
-- nothing else. The superuser has no password, so nobody can connect as it from outside of the container.
\getenv password POSTGRES_PASSWORD
CREATE ROLE plants LOGIN PASSWORD :'password';
CREATE DATABASE plants OWNER plants TEMPLATE template0 ENCODING 'UTF8';
ALTER ROLE CURRENT_USER PASSWORD NULL;
