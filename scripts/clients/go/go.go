// "create ID NAME", "list [ETAG]" or "delete ID", by openapi-generator's client for Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"program/plants"
)

func main() {
	configuration := plants.NewConfiguration()
	configuration.Servers = plants.ServerConfigurations{{URL: os.Getenv("BASE_URL")}}
	client := plants.NewAPIClient(configuration).PlantsAPI
	ctx := context.WithValue(context.Background(), plants.ContextAccessToken, os.Getenv("TOKEN"))
	value := os.Args[2]
	id, _ := strconv.ParseInt(value, 10, 64)
	var response *http.Response
	var err error
	switch os.Args[1] {
	case "create":
		var plant *plants.Plant
		plant, response, err = client.CreatePlant(ctx).PlantToCreate(*plants.NewPlantToCreate(id, os.Args[3])).Execute()
		if err == nil {
			fmt.Println(plant.Name)
		}
	case "list":
		var listed []plants.Plant
		listed, response, err = client.ListPlants(ctx).IfNoneMatch(value).Execute()
		if err == nil {
			fmt.Println(listed[0].Name)
		}
	case "delete":
		response, err = client.DeletePlant(ctx, id).Execute()
	}
	var failure *plants.GenericOpenAPIError
	if errors.As(err, &failure) {
		if model, typed := failure.Model().(plants.Error); typed {
			fmt.Println("err", response.StatusCode, model.Error)
		} else {
			fmt.Println("err", response.StatusCode, failure.Model())
		}
	} else if err != nil {
		panic(err)
	}
}
