// The round trip of ../../run.js by progenitor's client for Rust.
mod client {
    progenitor::generate_api!(spec = "openapi.json", interface = Builder);
}

use client::types::{Error, NewPlant};
use client::Client;
use std::env::var;

type Failure = Box<dyn std::error::Error>;

fn connect(token: &str) -> Result<Client, Failure> {
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse()?);
    let http = reqwest::Client::builder().default_headers(headers).build()?;
    Ok(Client::new_with_client(&var("BASE_URL")?, http))
}

fn plant(id: i64, name: &str) -> Result<NewPlant, Failure> {
    Ok(NewPlant { id, name: name.parse()?, tag: None })
}

// docs: hide
/// The status and the code of a typed error.
fn error_of<T>(result: Result<T, progenitor_client::Error<Error>>) -> [i64; 2] {
    match result {
        Err(progenitor_client::Error::ErrorResponse(response)) => {
            [response.status().as_u16().into(), response.error.into()]
        }
        _ => [0, 0],
    }
}
// docs: show

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let client = connect(&var("TOKEN")?)?;
    let own = (1 << 53) + 1;
    client.create_plant().body(plant(own, "own")?).send().await?;
    client.create_plant().body(plant(i64::MAX, "max")?).send().await?;
    let first = client.list_plants().limit(3).send().await?;
    let list: Vec<_> = first.iter().map(|plant| plant.name.clone()).collect();
    client.delete_plant().id(own).send().await?;
    // docs: hide
    let errors = [
        error_of(client.create_plant().body(plant(i64::MAX, "other")?).send().await),
        error_of(connect("wrong")?.list_plants().send().await),
        error_of(connect(&var("READ_TOKEN")?)?.delete_plant().id(1).send().await),
        error_of(client.delete_plant().id(own).send().await),
    ];
    println!("{}", serde_json::json!({ "list": list, "errors": errors }));
    // docs: show
    Ok(())
}
