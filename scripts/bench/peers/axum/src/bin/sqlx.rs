// sqlx on PostgreSQL, as its documentation shows: a pool of 10, prepared statements, and a transaction for each write.
use std::env;

use peer::{serve, Change, NewPlant, Outcome, Plant, Store, Subject};
use sqlx::{postgres::PgPoolOptions, PgPool, Row};

#[derive(Clone)]
struct Postgres(PgPool);

impl Store for Postgres {
    async fn list(&self, subject: Subject, limit: Option<u32>) -> Outcome<Vec<Plant>> {
        let text = "SELECT name, tag FROM plants WHERE subject = $1 ORDER BY id LIMIT $2";
        let query = sqlx::query(text)
            .bind(subject.as_ref())
            .bind(limit.map(i64::from));
        let rows = query.fetch_all(&self.0).await?;
        rows.iter()
            .map(|row| {
                Ok(Plant {
                    name: row.try_get(0)?,
                    tag: row.try_get(1)?,
                })
            })
            .collect()
    }

    async fn write(&self, subject: Subject, change: Change) -> Outcome<bool> {
        let query = match change {
            Change::Create(NewPlant { id, name, tag }) => {
                sqlx::query("INSERT INTO plants VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING")
                    .bind(subject.as_ref())
                    .bind(id)
                    .bind(name)
                    .bind(tag)
            }
            Change::Delete(id) => sqlx::query("DELETE FROM plants WHERE subject = $1 AND id = $2")
                .bind(subject.as_ref())
                .bind(id),
        };
        Ok(query.execute(&self.0).await?.rows_affected() == 1)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::var("DATABASE_URL")?;
    let pool = PgPoolOptions::new()
        .max_connections(10)
        .connect(&url)
        .await?;
    let subjects: Vec<String> = sqlx::query_scalar("SELECT DISTINCT subject FROM plants")
        .fetch_all(&pool)
        .await?;
    serve(
        Postgres(pool),
        subjects.into_iter().map(Subject::from).collect(),
    )
    .await
}
