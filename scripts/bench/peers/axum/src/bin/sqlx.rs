// sqlx on PostgreSQL, as its documentation shows: a pool of 10, prepared statements, and a transaction for each write.
use std::{env, sync::Arc};

use peer::{serve, Broken, NewPlant, Plant, Store};
use sqlx::{postgres::PgPoolOptions, PgPool, Row};

#[derive(Clone)]
struct Postgres(PgPool);

impl Store for Postgres {
    async fn list(&self, subject: Arc<str>, limit: Option<u32>) -> Result<Vec<Plant>, Broken> {
        let rows =
            sqlx::query("SELECT name, tag FROM plants WHERE subject = $1 ORDER BY id LIMIT $2")
                .bind(subject.as_ref())
                .bind(limit.map(i64::from))
                .fetch_all(&self.0)
                .await?;
        rows.iter()
            .map(|row| {
                Ok(Plant {
                    name: row.try_get(0)?,
                    tag: row.try_get(1)?,
                })
            })
            .collect()
    }

    async fn create(&self, subject: Arc<str>, plant: NewPlant) -> Result<bool, Broken> {
        let done = sqlx::query("INSERT INTO plants VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING")
            .bind(subject.as_ref())
            .bind(plant.id)
            .bind(plant.name)
            .bind(plant.tag)
            .execute(&self.0)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn delete(&self, subject: Arc<str>, id: i64) -> Result<bool, Broken> {
        let done = sqlx::query("DELETE FROM plants WHERE subject = $1 AND id = $2")
            .bind(subject.as_ref())
            .bind(id)
            .execute(&self.0)
            .await?;
        Ok(done.rows_affected() == 1)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPoolOptions::new()
        .max_connections(10)
        .connect(&env::var("DATABASE_URL")?)
        .await?;
    let subjects = sqlx::query("SELECT DISTINCT subject FROM plants")
        .fetch_all(&pool)
        .await?
        .iter()
        .map(|row| row.try_get::<String, _>(0).map(Arc::from))
        .collect::<Result<_, _>>()?;
    serve(Postgres(pool), subjects).await
}
