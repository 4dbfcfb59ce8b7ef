// The round trip of ../run.js by oapi-codegen's client for Go.
package main

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"os"

	"roundtrip/plants"
)

func connect(token string) *plants.ClientWithResponses {
	client, err := plants.NewClientWithResponses(os.Getenv("BASE_URL"),
		plants.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+token)
			return nil
		}))
	must(err)
	return client
}

// outcome gives the status and the code of a typed error.
func outcome(status int, failure *plants.Error) [2]int32 {
	if failure == nil {
		return [2]int32{}
	}
	return [2]int32{int32(status), failure.Error}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	client := connect(os.Getenv("TOKEN"))
	const own = 1<<53 + 1
	create := func(id int64, name string) *plants.CreatePlantResponse {
		response, err := client.CreatePlantWithResponse(ctx, plants.NewPlant{Id: id, Name: name})
		must(err)
		return response
	}
	remove := func(client *plants.ClientWithResponses, id int64) *plants.DeletePlantResponse {
		response, err := client.DeletePlantWithResponse(ctx, id)
		must(err)
		return response
	}
	create(own, "own")
	create(math.MaxInt64, "max")
	limit := int32(3)
	list, err := client.ListPlantsWithResponse(ctx, &plants.ListPlantsParams{Limit: &limit})
	must(err)
	names := []string{}
	for _, plant := range *list.JSON200 {
		names = append(names, plant.Name)
	}
	remove(client, own)

	taken := create(math.MaxInt64, "other")
	wrong, err := connect("wrong").ListPlantsWithResponse(ctx, nil)
	must(err)
	forbidden := remove(connect(os.Getenv("READ_TOKEN")), 1)
	gone := remove(client, own)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"list": names, "errors": [][2]int32{
		outcome(taken.StatusCode(), taken.JSON400),
		outcome(wrong.StatusCode(), wrong.JSON401),
		outcome(forbidden.StatusCode(), forbidden.JSON403),
		outcome(gone.StatusCode(), gone.JSON404),
	}}))
}
