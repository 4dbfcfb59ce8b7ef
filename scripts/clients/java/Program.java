// "create ID NAME", "list [ETAG]" or "delete ID", by openapi-generator's client for Java.
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.PlantsApi;
import org.openapitools.client.model.Error;
import org.openapitools.client.model.NewPlant;
import org.openapitools.client.model.Plant;

public class Program {
  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.setBasePath(System.getenv("BASE_URL"));
    client.setBearerToken(System.getenv("TOKEN"));
    PlantsApi plants = new PlantsApi(client);
    String value = arguments[1];
    try {
      if (arguments[0].equals("create")) {
        NewPlant plant = new NewPlant().id(Long.parseLong(value)).name(arguments[2]);
        System.out.println(plants.createPlant(plant, null).getName());
      } else if (arguments[0].equals("list")) {
        for (Plant plant : plants.listPlants(null, value, null)) System.out.println(plant.getName());
      } else {
        plants.deletePlant(Long.parseLong(value), null);
      }
    } catch (ApiException exception) {
      String body = exception.getResponseBody();
      boolean empty = body == null || body.isEmpty();
      System.out.println(
          "throws " + exception.getCode() + " " + (empty ? body : Error.fromJson(body).getError()));
    }
    // OkHttp's threads would keep the process for a minute.
    System.exit(0);
  }
}
