// The round trip of ../../run.js with openapi-generator's client for Rust.
use openapi::apis::configuration::Configuration;
use openapi::apis::plants_api::{create_plant, delete_plant, list_plants};
use openapi::apis::Error;
use openapi::models::{Error as Body, NewPlant};
use std::env::var;

type Failure = Box<dyn std::error::Error>;

fn connect(token: &str) -> Result<Configuration, Failure> {
    let mut configuration = Configuration::new();
    configuration.base_path = var("BASE_URL")?;
    configuration.bearer_access_token = Some(token.to_owned());
    Ok(configuration)
}

// docs: hide
/// The status, and the code of the error that the body contains.
fn status_and_code<T, E>(result: Result<T, Error<E>>) -> Result<[i32; 2], Failure> {
    match result {
        Err(Error::ResponseError(response)) => {
            let body: Body = serde_json::from_str(&response.content)?;
            Ok([response.status.as_u16().into(), body.error])
        }
        _ => Ok([0, 0]),
    }
}
// docs: show

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let client = connect(&var("TOKEN")?)?;
    let own = (1 << 53) + 1;
    create_plant(&client, NewPlant::new(own, "own".to_owned())).await?;
    create_plant(&client, NewPlant::new(i64::MAX, "max".to_owned())).await?;
    let first = list_plants(&client, Some(3), None).await?;
    let list: Vec<_> = first.into_iter().map(|plant| plant.name).collect();
    delete_plant(&client, own).await?;
    // docs: hide
    let errors = [
        status_and_code(create_plant(&client, NewPlant::new(i64::MAX, "other".to_owned())).await)?,
        status_and_code(list_plants(&connect("wrong")?, None, None).await)?,
        status_and_code(delete_plant(&connect(&var("READ_TOKEN")?)?, 1).await)?,
        status_and_code(delete_plant(&client, own).await)?,
    ];
    println!("{}", serde_json::json!({ "list": list, "errors": errors }));
    // docs: show
    Ok(())
}
