// rusqlite: reads on every core, and one thread that commits writes in groups, as a Rust expert would do it.
use std::{cell::RefCell, env, sync::Arc, thread};

use peer::{serve, Broken, NewPlant, Plant, Store};
use rusqlite::{params, Connection};
use tokio::sync::{mpsc, oneshot};

/// How many writes a transaction has at most.
const BATCH: usize = 1_000;

enum Change {
    Create(NewPlant),
    Delete(i64),
}

struct Write {
    subject: Arc<str>,
    change: Change,
    /// Gets whether the write changed something, once it is on the disk.
    done: oneshot::Sender<bool>,
}

fn open() -> rusqlite::Result<Connection> {
    let database = Connection::open(env::var("PLANTS_FILE").expect("PLANTS_FILE"))?;
    database.pragma_update(None, "synchronous", "FULL")?;
    Ok(database)
}

thread_local! {
    static READER: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

fn commit(database: &mut Connection, batch: &[Write]) -> rusqlite::Result<Vec<bool>> {
    let transaction = database.transaction()?;
    let changed = {
        let mut insert = transaction
            .prepare_cached("INSERT INTO plants VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")?;
        let mut remove =
            transaction.prepare_cached("DELETE FROM plants WHERE subject = ? AND id = ?")?;
        batch
            .iter()
            .map(
                |Write {
                     subject, change, ..
                 }| {
                    Ok(1 == match change {
                        Change::Create(NewPlant { id, name, tag }) => {
                            insert.execute(params![subject.as_ref(), id, name, tag])?
                        }
                        Change::Delete(id) => remove.execute(params![subject.as_ref(), id])?,
                    })
                },
            )
            .collect::<rusqlite::Result<_>>()?
    };
    transaction.commit()?;
    Ok(changed)
}

fn write_all(mut database: Connection, mut writes: mpsc::Receiver<Write>) {
    let mut batch = Vec::with_capacity(BATCH);
    while writes.blocking_recv_many(&mut batch, BATCH) > 0 {
        let changed = commit(&mut database, &batch);
        for (i, Write { done, .. }) in batch.drain(..).enumerate() {
            // Without an outcome its sender is dropped, and the request fails.
            if let Ok(changed) = &changed {
                let _ = done.send(changed[i]);
            }
        }
    }
}

#[derive(Clone)]
struct Sqlite(mpsc::Sender<Write>);

impl Sqlite {
    async fn write(&self, subject: Arc<str>, change: Change) -> Result<bool, Broken> {
        let (done, changed) = oneshot::channel();
        self.0
            .send(Write {
                subject,
                change,
                done,
            })
            .await?;
        Ok(changed.await?)
    }
}

impl Store for Sqlite {
    async fn list(&self, subject: Arc<str>, limit: Option<u32>) -> Result<Vec<Plant>, Broken> {
        READER.with_borrow_mut(|reader| {
            let database = match reader {
                Some(database) => database,
                None => reader.insert(open()?),
            };
            let plants = database
                .prepare_cached("SELECT name, tag FROM plants WHERE subject = ? ORDER BY id LIMIT ?")?
                .query_map(params![subject.as_ref(), limit.map_or(-1, i64::from)], |row| {
                    Ok(Plant {
                        name: row.get(0)?,
                        tag: row.get(1)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok(plants)
        })
    }

    async fn create(&self, subject: Arc<str>, plant: NewPlant) -> Result<bool, Broken> {
        self.write(subject, Change::Create(plant)).await
    }

    async fn delete(&self, subject: Arc<str>, id: i64) -> Result<bool, Broken> {
        self.write(subject, Change::Delete(id)).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = open()?;
    let subjects = database
        .prepare("SELECT DISTINCT subject FROM plants")?
        .query_map([], |row| row.get::<_, String>(0))?
        .map(|subject| subject.map(Arc::from))
        .collect::<Result<_, _>>()?;
    let (writes, queue) = mpsc::channel(20_000);
    thread::spawn(move || write_all(database, queue));
    serve(Sqlite(writes), subjects).await
}
