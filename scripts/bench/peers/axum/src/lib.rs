// The HTTP part of the Rust peers, with axum, whose own responses refuse malformed requests. Each program in
// bin/ has a store.
use std::{collections::HashSet, env, error::Error, future::Future, sync::Arc};

use axum::{
    extract::{Path, Query, Request, State},
    http::{header, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get},
    serve::ListenerExt,
    Extension, Json, Router,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPlant {
    pub id: i64,
    pub name: String,
    pub tag: Option<String>,
}

#[derive(Serialize)]
pub struct Plant {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

pub enum Change {
    Create(NewPlant),
    Delete(i64),
}

/// The store failed.
pub struct Broken;

impl<E: Error> From<E> for Broken {
    fn from(_: E) -> Self {
        Broken
    }
}

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        failure(StatusCode::SERVICE_UNAVAILABLE, 50300, "the store failed")
    }
}

pub type Subject = Arc<str>;
pub type Outcome<T> = Result<T, Broken>;

/// Where a program keeps its plants.
pub trait Store: Clone + Send + Sync + 'static {
    /// Lists plants by id, all of them without a limit.
    fn list(
        &self,
        subject: Subject,
        limit: Option<u32>,
    ) -> impl Future<Output = Outcome<Vec<Plant>>> + Send;
    /// Makes a change, and returns whether it changed something: whether an id was not taken, or was there.
    fn write(&self, subject: Subject, change: Change)
        -> impl Future<Output = Outcome<bool>> + Send;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<std::num::NonZeroU32>,
}

fn failure(status: StatusCode, error: i32, message: &str) -> Response {
    (status, Json(json!({ "error": error, "message": message }))).into_response()
}

/// A subject's token is its name.
async fn authenticate(
    State(subjects): State<Arc<HashSet<Subject>>>,
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
        None => failure(StatusCode::UNAUTHORIZED, 40100, "no token"),
    }
}

async fn list_plants<S: Store>(
    State(store): State<S>,
    Extension(subject): Extension<Subject>,
    Query(ListQuery { limit }): Query<ListQuery>,
) -> Outcome<Json<Vec<Plant>>> {
    Ok(Json(
        store.list(subject, limit.map(|limit| limit.get())).await?,
    ))
}

async fn create_plant<S: Store>(
    State(store): State<S>,
    Extension(subject): Extension<Subject>,
    Json(plant): Json<NewPlant>,
) -> Outcome<Response> {
    let created = Plant {
        name: plant.name.clone(),
        tag: plant.tag.clone(),
    };
    Ok(match store.write(subject, Change::Create(plant)).await? {
        true => Json(created).into_response(),
        false => failure(StatusCode::BAD_REQUEST, 40010, "taken"),
    })
}

async fn delete_plant<S: Store>(
    State(store): State<S>,
    Extension(subject): Extension<Subject>,
    Path(id): Path<i64>,
) -> Outcome<Response> {
    Ok(match store.write(subject, Change::Delete(id)).await? {
        true => StatusCode::NO_CONTENT.into_response(),
        false => failure(StatusCode::NOT_FOUND, 40400, "not found"),
    })
}

/// Serves a store on HOST and PORT.
pub async fn serve<S: Store>(store: S, subjects: HashSet<Subject>) -> Result<(), Box<dyn Error>> {
    let subjects = Arc::new(subjects);
    let app = Router::new()
        .route("/plants", get(list_plants::<S>).post(create_plant::<S>))
        .route("/plants/{id}", delete(delete_plant::<S>))
        .layer(middleware::from_fn_with_state(subjects, authenticate))
        .with_state(store);
    let address = format!("{}:{}", env::var("HOST")?, env::var("PORT")?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    Ok(axum::serve(listener, app).await?)
}
