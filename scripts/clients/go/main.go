// The round trip of ../run.js by openapi-generator's client for Go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"os"

	"roundtrip/openapi"
)

func connect(token string) (*openapi.PlantsAPIService, context.Context) {
	configuration := openapi.NewConfiguration()
	configuration.Servers = openapi.ServerConfigurations{{URL: os.Getenv("BASE_URL")}}
	return openapi.NewAPIClient(configuration).PlantsAPI,
		context.WithValue(context.Background(), openapi.ContextAccessToken, token)
}

// docs: hide
// outcome gives the status and the code of a typed error.
func outcome(response *http.Response, err error) [2]int32 {
	var failure *openapi.GenericOpenAPIError
	if !errors.As(err, &failure) {
		return [2]int32{}
	}
	model, _ := failure.Model().(openapi.Error)
	return [2]int32{int32(response.StatusCode), model.Error}
}
// docs: show

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	plants, ctx := connect(os.Getenv("TOKEN"))
	const own = 1<<53 + 1
	create := func(id int64, name string) (*http.Response, error) {
		_, response, err := plants.CreatePlant(ctx).PlantInput(*openapi.NewPlantInput(id, name)).Execute()
		return response, err
	}
	_, err := create(own, "own")
	must(err)
	_, err = create(math.MaxInt64, "max")
	must(err)
	list, _, err := plants.ListPlants(ctx).Limit(3).Execute()
	must(err)
	names := []string{}
	for _, plant := range list {
		names = append(names, plant.Name)
	}
	_, err = plants.DeletePlant(ctx, own).Execute()
	must(err)

	// docs: hide
	strangers, strange := connect("wrong")
	_, wrong, wrongErr := strangers.ListPlants(strange).Execute()
	readers, reading := connect(os.Getenv("READ_TOKEN"))
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"list": names, "errors": [][2]int32{
		outcome(create(math.MaxInt64, "other")),
		outcome(wrong, wrongErr),
		outcome(readers.DeletePlant(reading, 1).Execute()),
		outcome(plants.DeletePlant(ctx, own).Execute()),
	}}))
	// docs: show
}
