// "create ID NAME", "list [ETAG]" or "delete ID", by progenitor's client.
use api::{Client, types};
use progenitor_client::{Error, ResponseValue};

mod api {
    progenitor::generate_api!("openapi.yaml");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = arguments[2].as_str();
    let variable = |name| std::env::var(name).unwrap();
    let mut headers = reqwest::header::HeaderMap::new();
    let token = format!("Bearer {}", variable("TOKEN")).parse().unwrap();
    headers.insert(reqwest::header::AUTHORIZATION, token);
    let http = reqwest::Client::builder().default_headers(headers).build();
    let client = Client::new_with_client(&variable("BASE_URL"), http.unwrap());
    let id = || value.parse::<i64>().unwrap();
    match arguments[1].as_str() {
        "create" => {
            let plant = types::NewPlant {
                id: id(),
                name: arguments[3].parse().unwrap(),
                tag: None,
            };
            show(client.create_plant(None, &plant).await, |plant| plant.name.to_string());
        }
        "list" => show(client.list_plants(None, Some(value), None).await, |plants| {
            plants.iter().map(|plant| plant.name.to_string()).collect()
        }),
        _ => show(client.delete_plant(id(), None).await, |_| "deleted".to_string()),
    }
}

fn show<T>(
    result: Result<ResponseValue<T>, Error<types::Error>>,
    text: impl Fn(&T) -> String,
) {
    match result {
        Ok(response) => println!("{}", text(&response)),
        Err(Error::ErrorResponse(response)) => {
            println!("Err {} {}", response.status().as_u16(), response.into_inner().error)
        }
        Err(Error::UnexpectedResponse(response)) => {
            println!("Err {} unexpected", response.status().as_u16())
        }
        Err(error) => println!("Err {error:?}"),
    }
}
