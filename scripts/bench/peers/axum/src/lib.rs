// The HTTP part of the Rust peers, with axum. Each program in bin/ has a store.
use std::{collections::HashSet, env, future::Future, io::Read, sync::Arc, thread};

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
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPlant {
    pub id: i64,
    pub name: String,
    #[serde(default, deserialize_with = "present")]
    pub tag: Option<String>,
}

/// A field that may be absent, but not null.
fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    String::deserialize(field).map(Some)
}

#[derive(Serialize)]
pub struct Plant {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The store failed.
pub struct Broken;

impl<E: std::error::Error> From<E> for Broken {
    fn from(_: E) -> Self {
        Broken
    }
}

/// Where a program keeps its plants.
pub trait Store: Clone + Send + Sync + 'static {
    /// Lists plants by id, all of them without a limit.
    fn list(
        &self,
        subject: Arc<str>,
        limit: Option<u32>,
    ) -> impl Future<Output = Result<Vec<Plant>, Broken>> + Send;
    /// Creates a plant, unless the id is taken.
    fn create(
        &self,
        subject: Arc<str>,
        plant: NewPlant,
    ) -> impl Future<Output = Result<bool, Broken>> + Send;
    /// Deletes a plant, if there is one.
    fn delete(
        &self,
        subject: Arc<str>,
        id: i64,
    ) -> impl Future<Output = Result<bool, Broken>> + Send;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<std::num::NonZeroU32>,
}

type Failure = (StatusCode, Json<serde_json::Value>);

fn failure(status: StatusCode, error: i32, message: &str) -> Failure {
    (status, Json(json!({ "error": error, "message": message })))
}

fn invalid(message: impl ToString) -> Failure {
    failure(StatusCode::BAD_REQUEST, 40000, &message.to_string())
}

fn broken(_: Broken) -> Failure {
    failure(StatusCode::SERVICE_UNAVAILABLE, 50300, "the store failed")
}

/// A subject's token is its name.
async fn authenticate(
    State(subjects): State<Arc<HashSet<Arc<str>>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.get(7..));
    match token.and_then(|token| subjects.get(token).cloned()) {
        Some(subject) => {
            request.extensions_mut().insert(subject);
            next.run(request).await
        }
        None => failure(StatusCode::UNAUTHORIZED, 40100, "no token").into_response(),
    }
}

async fn list_plants<S: Store>(
    State(store): State<S>,
    Extension(subject): Extension<Arc<str>>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Vec<Plant>>, Failure> {
    let limit = query.map_err(invalid)?.limit.map(|limit| limit.get());
    store.list(subject, limit).await.map(Json).map_err(broken)
}

async fn create_plant<S: Store>(
    State(store): State<S>,
    Extension(subject): Extension<Arc<str>>,
    plant: Result<Json<NewPlant>, JsonRejection>,
) -> Result<Json<Plant>, Failure> {
    let Json(plant) = plant.map_err(invalid)?;
    let created = Plant {
        name: plant.name.clone(),
        tag: plant.tag.clone(),
    };
    if store.create(subject, plant).await.map_err(broken)? {
        Ok(Json(created))
    } else {
        Err(failure(StatusCode::BAD_REQUEST, 40010, "taken"))
    }
}

async fn delete_plant<S: Store>(
    State(store): State<S>,
    Extension(subject): Extension<Arc<str>>,
    id: Result<Path<i64>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(id) = id.map_err(invalid)?;
    if store.delete(subject, id).await.map_err(broken)? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(failure(StatusCode::NOT_FOUND, 40400, "not found"))
    }
}

/// Serves a store on HOST and PORT until the standard input ends.
pub async fn serve<S: Store>(
    store: S,
    subjects: HashSet<Arc<str>>,
) -> Result<(), Box<dyn std::error::Error>> {
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let app = Router::new()
        .route("/plants", get(list_plants::<S>).post(create_plant::<S>))
        .route("/plants/{id}", delete(delete_plant::<S>))
        .layer(middleware::from_fn_with_state(
            Arc::new(subjects),
            authenticate,
        ))
        .with_state(store);
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
