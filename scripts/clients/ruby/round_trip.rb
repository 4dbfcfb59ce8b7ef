# The round trip of ../run.js with openapi-generator's client for Ruby.
require 'json'
require 'uri'
require 'openapi_client'

def connect(token)
  url = URI(ENV.fetch('BASE_URL'))
  configuration = OpenapiClient::Configuration.new
  configuration.scheme = url.scheme
  configuration.host = "#{url.host}:#{url.port}"
  configuration.access_token = token
  OpenapiClient::PlantsApi.new(OpenapiClient::ApiClient.new(configuration))
end

def plant(id, name)
  OpenapiClient::NewPlant.new(id: id, name: name)
end

# docs: hide
# The status, and the code of the error that the body contains.
def status_and_code
  yield
  [0, 0]
rescue OpenapiClient::ApiError => e
  body = JSON.parse(e.response_body, symbolize_names: true)
  [e.code, OpenapiClient::Error.build_from_hash(body).error]
end
# docs: show

plants = connect(ENV.fetch('TOKEN'))
own = 2**53 + 1
max = 2**63 - 1
plants.create_plant(plant(own, 'own'))
plants.create_plant(plant(max, 'max'))
list = plants.list_plants(limit: 3).map(&:name)
plants.delete_plant(own)
# docs: hide
errors = [
  status_and_code { plants.create_plant(plant(max, 'other')) },
  status_and_code { connect('wrong').list_plants },
  status_and_code { connect(ENV.fetch('READ_TOKEN')).delete_plant(1) },
  status_and_code { plants.delete_plant(own) }
]
puts JSON.generate({ list: list, errors: errors })
# docs: show
