// rusqlite: reads on every core, and one thread that commits writes in groups, as a Rust expert would do it.
use std::{cell::OnceCell, env, thread};

use peer::{serve, Change, NewPlant, Outcome, Plant, Store, Subject};
use rusqlite::{params, Connection, Result};
use tokio::sync::{mpsc, oneshot};

/// How many writes a transaction has at most.
const BATCH: usize = 1_000;

/// A write, and what gets whether it changed something, once it is on the disk.
type Write = (Subject, Change, oneshot::Sender<bool>);

fn open() -> Result<Connection> {
    let database = Connection::open(env::var("DATABASE_URL").expect("DATABASE_URL"))?;
    database.pragma_update(None, "synchronous", "FULL")?;
    Ok(database)
}

thread_local! {
    static READER: OnceCell<Connection> = const { OnceCell::new() };
}

fn commit(database: &mut Connection, batch: &[Write]) -> Result<Vec<bool>> {
    let transaction = database.transaction()?;
    let changed = batch.iter().map(|(subject, change, _)| {
        Ok(1 == match change {
            Change::Create(NewPlant { id, name, tag }) => transaction
                .prepare_cached("INSERT INTO plants VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")?
                .execute(params![subject, id, name, tag])?,
            Change::Delete(id) => transaction
                .prepare_cached("DELETE FROM plants WHERE subject = ? AND id = ?")?
                .execute(params![subject, id])?,
        })
    });
    let changed = changed.collect::<Result<_>>()?;
    transaction.commit()?;
    Ok(changed)
}

fn write_all(mut database: Connection, mut writes: mpsc::Receiver<Write>) {
    let mut batch = Vec::with_capacity(BATCH);
    while writes.blocking_recv_many(&mut batch, BATCH) > 0 {
        // Without an outcome the senders are dropped, and the requests fail.
        let changed = commit(&mut database, &batch).unwrap_or_default();
        for ((_, _, done), changed) in batch.drain(..).zip(changed) {
            let _ = done.send(changed);
        }
    }
}

#[derive(Clone)]
struct Sqlite(mpsc::Sender<Write>);

impl Store for Sqlite {
    async fn list(&self, subject: Subject, limit: Option<u32>) -> Outcome<Vec<Plant>> {
        READER.with(|reader| {
            if reader.get().is_none() {
                let _ = reader.set(open()?);
            }
            let database = reader.get().expect("a connection");
            let plants = database
                .prepare_cached(
                    "SELECT name, tag FROM plants WHERE subject = ? ORDER BY id LIMIT ?",
                )?
                .query_map(params![subject, limit.map_or(-1, i64::from)], |row| {
                    Ok(Plant {
                        name: row.get(0)?,
                        tag: row.get(1)?,
                    })
                })?
                .collect::<Result<_>>()?;
            Ok(plants)
        })
    }

    async fn write(&self, subject: Subject, change: Change) -> Outcome<bool> {
        let (done, changed) = oneshot::channel();
        self.0.send((subject, change, done)).await?;
        Ok(changed.await?)
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let database = open()?;
    let subjects = database
        .prepare("SELECT DISTINCT subject FROM plants")?
        .query_map([], |row| row.get::<_, String>(0).map(Subject::from))?
        .collect::<Result<_>>()?;
    let (writes, queue) = mpsc::channel(20_000);
    thread::spawn(move || write_all(database, queue));
    serve(Sqlite(writes), subjects).await
}
