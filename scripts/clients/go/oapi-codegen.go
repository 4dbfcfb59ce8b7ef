// "create ID NAME", "list [ETAG]" or "delete ID", by oapi-codegen's client.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"program/plants"
)

func show(status int, failure *plants.Error) {
	if failure == nil {
		fmt.Println(status, nil)
	} else {
		fmt.Println(status, failure.Error)
	}
}

func main() {
	ctx := context.Background()
	client, err := plants.NewClientWithResponses(os.Getenv("BASE_URL"),
		plants.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
			return nil
		}))
	must(err)
	value := os.Args[2]
	id, _ := strconv.ParseInt(value, 10, 64)
	switch os.Args[1] {
	case "create":
		response, err := client.CreatePlantWithResponse(ctx, nil, plants.NewPlant{Id: id, Name: os.Args[3]})
		must(err)
		if response.JSON200 != nil {
			fmt.Println(response.JSON200.Name)
		} else {
			show(response.StatusCode(), response.JSON400)
		}
	case "list":
		response, err := client.ListPlantsWithResponse(ctx, &plants.ListPlantsParams{IfNoneMatch: &value})
		must(err)
		if response.JSON200 != nil {
			fmt.Println((*response.JSON200)[0].Name)
		} else {
			show(response.StatusCode(), response.JSON400)
		}
	case "delete":
		response, err := client.DeletePlantWithResponse(ctx, id, nil)
		must(err)
		show(response.StatusCode(), response.JSON404)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
