// axum with rusqlite: reads on every core, and one thread that commits writes in groups, as a Rust expert would do it.
use std::{cell::RefCell, collections::HashSet, env, io::Read, sync::Arc, thread};

use axum::{
    extract::{
        rejection::JsonRejection, rejection::PathRejection, rejection::QueryRejection, Path, Query,
        Request, State,
    },
    http::{header, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get},
    Extension, Json, Router,
};
use rusqlite::{params, Connection};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

/// How many writes a transaction has at most.
const BATCH: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPlant {
    id: i64,
    name: String,
    #[serde(default, deserialize_with = "present")]
    tag: Option<String>,
}

/// A field that may be absent, but not null.
fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    String::deserialize(field).map(Some)
}

#[derive(Serialize)]
struct Plant {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<std::num::NonZeroU32>,
}

enum Change {
    Create {
        id: i64,
        name: String,
        tag: Option<String>,
    },
    Delete {
        id: i64,
    },
}

struct Write {
    subject: Arc<str>,
    change: Change,
    /// Gets whether the write changed something, once it is on the disk.
    done: oneshot::Sender<bool>,
}

#[derive(Clone)]
struct Service {
    subjects: Arc<HashSet<Arc<str>>>,
    writes: mpsc::Sender<Write>,
}

type Failure = (StatusCode, Json<serde_json::Value>);

fn failure(status: StatusCode, error: i32, message: &str) -> Failure {
    (status, Json(json!({ "error": error, "message": message })))
}

fn invalid(message: impl ToString) -> Failure {
    failure(StatusCode::BAD_REQUEST, 40000, &message.to_string())
}

fn broken(_: impl std::error::Error) -> Failure {
    failure(StatusCode::SERVICE_UNAVAILABLE, 50300, "the store failed")
}

fn open() -> rusqlite::Result<Connection> {
    let database = Connection::open(env::var("PLANTS_FILE").expect("PLANTS_FILE"))?;
    database.pragma_update(None, "synchronous", "FULL")?;
    Ok(database)
}

thread_local! {
    static READER: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

fn list(subject: &str, limit: i64) -> rusqlite::Result<Vec<Plant>> {
    READER.with_borrow_mut(|reader| {
        let database = match reader {
            Some(database) => database,
            None => reader.insert(open()?),
        };
        database
            .prepare_cached("SELECT name, tag FROM plants WHERE subject = ? ORDER BY id LIMIT ?")?
            .query_map(params![subject, limit], |row| {
                Ok(Plant {
                    name: row.get(0)?,
                    tag: row.get(1)?,
                })
            })?
            .collect()
    })
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
                        Change::Create { id, name, tag } => {
                            insert.execute(params![subject.as_ref(), id, name, tag])?
                        }
                        Change::Delete { id } => remove.execute(params![subject.as_ref(), id])?,
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

impl Service {
    async fn write(&self, subject: Arc<str>, change: Change) -> Result<bool, Failure> {
        let (done, changed) = oneshot::channel();
        self.writes
            .send(Write {
                subject,
                change,
                done,
            })
            .await
            .map_err(broken)?;
        changed.await.map_err(broken)
    }
}

async fn authenticate(
    State(service): State<Service>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.get(7..));
    match token.and_then(|token| service.subjects.get(token)) {
        Some(subject) => {
            let subject = subject.clone();
            request.extensions_mut().insert(subject);
            next.run(request).await
        }
        None => failure(StatusCode::UNAUTHORIZED, 40100, "no token").into_response(),
    }
}

async fn list_plants(
    Extension(subject): Extension<Arc<str>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Vec<Plant>>, Failure> {
    let limit = query
        .map_err(invalid)?
        .limit
        .map_or(-1, |limit| i64::from(limit.get()));
    list(&subject, limit).map(Json).map_err(broken)
}

async fn create_plant(
    State(service): State<Service>,
    Extension(subject): Extension<Arc<str>>,
    plant: Result<Json<NewPlant>, JsonRejection>,
) -> Result<Json<Plant>, Failure> {
    let Json(NewPlant { id, name, tag }) = plant.map_err(invalid)?;
    let change = Change::Create {
        id,
        name: name.clone(),
        tag: tag.clone(),
    };
    if service.write(subject, change).await? {
        Ok(Json(Plant { name, tag }))
    } else {
        Err(failure(StatusCode::BAD_REQUEST, 40010, "taken"))
    }
}

async fn delete_plant(
    State(service): State<Service>,
    Extension(subject): Extension<Arc<str>>,
    id: Result<Path<i64>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(id) = id.map_err(invalid)?;
    if service.write(subject, Change::Delete { id }).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(failure(StatusCode::NOT_FOUND, 40400, "not found"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Whoever started it has gone when its input ends.
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let database = open()?;
    let subjects = database
        .prepare("SELECT DISTINCT subject FROM plants")?
        .query_map([], |row| row.get::<_, String>(0))?
        .map(|subject| subject.map(Arc::from))
        .collect::<Result<_, _>>()?;
    let (writes, queue) = mpsc::channel(20_000);
    thread::spawn(move || write_all(database, queue));
    let service = Service {
        subjects: Arc::new(subjects),
        writes,
    };
    let app = Router::new()
        .route("/plants", get(list_plants).post(create_plant))
        .route("/plants/{id}", delete(delete_plant))
        .layer(middleware::from_fn_with_state(
            service.clone(),
            authenticate,
        ))
        .with_state(service);
    let address = format!("{}:{}", env::var("HOST")?, env::var("PORT")?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    use axum::serve::ListenerExt;
    axum::serve(
        listener.tap_io(|socket| drop(socket.set_nodelay(true))),
        app,
    )
    .await?;
    Ok(())
}
