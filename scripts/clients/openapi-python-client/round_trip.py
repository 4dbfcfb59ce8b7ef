# The round trip of ../run.js with openapi-python-client's client.
import json
import os

from plant_store_client import AuthenticatedClient
from plant_store_client.api.plants import create_plant, delete_plant, list_plants
from plant_store_client.models import Error, NewPlant


def connect(token: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=os.environ["BASE_URL"], token=token)


def status_and_code(response) -> list[int]:
    """The status, and the code of the error that the body contains."""
    return [response.status_code, response.parsed.error if isinstance(response.parsed, Error) else 0]


plants = connect(os.environ["TOKEN"])
own, largest = 2**53 + 1, 2**63 - 1
create_plant.sync(client=plants, body=NewPlant(id=own, name="own"))
create_plant.sync(client=plants, body=NewPlant(id=largest, name="max"))
names = [plant.name for plant in list_plants.sync(client=plants, limit=3)]
delete_plant.sync_detailed(own, client=plants)
errors = [
    status_and_code(create_plant.sync_detailed(client=plants, body=NewPlant(id=largest, name="other"))),
    status_and_code(list_plants.sync_detailed(client=connect("wrong"))),
    status_and_code(delete_plant.sync_detailed(1, client=connect(os.environ["READ_TOKEN"]))),
    status_and_code(delete_plant.sync_detailed(own, client=plants)),
]
print(json.dumps({"list": names, "errors": errors}))
