# The round trip of ../run.js by openapi-generator's client for Python.
import json
import os

from openapi_client import ApiClient, ApiException, Configuration, NewPlant, PlantsApi


def connect(token: str) -> PlantsApi:
    return PlantsApi(ApiClient(Configuration(host=os.environ["BASE_URL"], access_token=token)))


# docs: hide
def outcome(call, *arguments) -> list[int]:
    """The status and the code of a typed error."""
    try:
        call(*arguments)
    except ApiException as exception:
        return [exception.status, exception.data.error]
    return [0, 0]
# docs: show


plants = connect(os.environ["TOKEN"])
own, largest = 2**53 + 1, 2**63 - 1
plants.create_plant(NewPlant(id=own, name="own"))
plants.create_plant(NewPlant(id=largest, name="max"))
names = [plant.name for plant in plants.list_plants(limit=3)]
plants.delete_plant(own)
# docs: hide
errors = [
    outcome(plants.create_plant, NewPlant(id=largest, name="other")),
    outcome(connect("wrong").list_plants),
    outcome(connect(os.environ["READ_TOKEN"]).delete_plant, 1),
    outcome(plants.delete_plant, own),
]
print(json.dumps({"list": names, "errors": errors}))
# docs: show
