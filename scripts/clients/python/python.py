# "create ID NAME", "list [ETAG]" or "delete ID", by openapi-generator's client for Python.
import os
import sys

from openapi_client import ApiClient, ApiException, Configuration, NewPlant, PlantsApi

plants = PlantsApi(ApiClient(Configuration(host=os.environ["BASE_URL"], access_token=os.environ["TOKEN"])))
try:
    match sys.argv[1:]:
        case ["create", id, name]:
            print(plants.create_plant(NewPlant(id=int(id), name=name)).name)
        case ["list", etag]:
            print(",".join(plant.name for plant in plants.list_plants(if_none_match=etag)))
        case ["delete", id]:
            print(plants.delete_plant(int(id)))
except ApiException as exception:
    print("throws", exception.status, exception.data.error if exception.data else None)
