// "create ID NAME", "list [ETAG]" or "delete ID", by ogen's client.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"program/plants"
)

type token string

func (token token) BearerAuth(context.Context, plants.OperationName) (plants.BearerAuth, error) {
	return plants.BearerAuth{Token: string(token)}, nil
}

func main() {
	ctx := context.Background()
	client, err := plants.NewClient(os.Getenv("BASE_URL"), token(os.Getenv("TOKEN")))
	must(err)
	value := os.Args[2]
	id, _ := strconv.ParseInt(value, 10, 64)
	var result any
	switch os.Args[1] {
	case "create":
		result, err = client.CreatePlant(ctx, &plants.NewPlant{ID: id, Name: os.Args[3]})
	case "list":
		result, err = client.ListPlants(ctx, plants.ListPlantsParams{IfNoneMatch: plants.NewOptString(value)})
	case "delete":
		result, err = client.DeletePlant(ctx, plants.DeletePlantParams{ID: id})
	}
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	// The type of the result stands for its status.
	switch result := result.(type) {
	case *plants.PlantHeaders:
		fmt.Println(result.Response.Name)
	case *plants.ListPlantsOKHeaders:
		fmt.Println(result.Response[0].Name)
	case *plants.InvalidPlantHeaders:
		fmt.Println(400, result.Response.Error)
	case *plants.NotFoundHeaders:
		fmt.Println(404, result.Response.Error)
	default:
		fmt.Printf("%T\n", result)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
