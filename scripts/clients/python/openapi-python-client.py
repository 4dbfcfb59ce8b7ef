# "create ID NAME", "list [ETAG]" or "delete ID", by openapi-python-client's client.
import os
import sys

from plant_store_client import AuthenticatedClient
from plant_store_client.api.plants import create_plant, delete_plant, list_plants
from plant_store_client.models import Error, NewPlant

plants = AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["TOKEN"])
match sys.argv[1:]:
    case ["create", id, name]:
        response = create_plant.sync_detailed(client=plants, body=NewPlant(id=int(id), name=name))
    case ["list", etag]:
        response = list_plants.sync_detailed(client=plants, if_none_match=etag)
    case ["delete", id]:
        response = delete_plant.sync_detailed(int(id), client=plants)
match response.parsed:
    case Error() as error:
        print(int(response.status_code), error.error)
    case None:
        print(int(response.status_code), None)
    case list() as listed:
        print(",".join(plant.name for plant in listed))
    case plant:
        print(plant.name)
