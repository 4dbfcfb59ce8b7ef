// The round trip of ../run.js by openapi-generator's client for Java.
import com.google.gson.Gson;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.PlantsApi;
import org.openapitools.client.model.Error;
import org.openapitools.client.model.NewPlant;
import org.openapitools.client.model.Plant;

public class RoundTrip {
  static PlantsApi connect(String token) {
    ApiClient client = new ApiClient();
    client.setBasePath(System.getenv("BASE_URL"));
    client.setBearerToken(token);
    return new PlantsApi(client);
  }

  /** The status of the exception, and the code of the Error that its body is read as. */
  static List<Integer> outcome(Call call) throws Exception {
    try {
      call.run();
    } catch (ApiException exception) {
      return List.of(exception.getCode(), Error.fromJson(exception.getResponseBody()).getError());
    }
    return List.of(0, 0);
  }

  interface Call {
    void run() throws ApiException;
  }

  public static void main(String[] arguments) throws Exception {
    PlantsApi plants = connect(System.getenv("TOKEN"));
    long own = (1L << 53) + 1;
    plants.createPlant(new NewPlant().id(own).name("own"));
    plants.createPlant(new NewPlant().id(Long.MAX_VALUE).name("max"));
    List<String> names = plants.listPlants(3, null).stream().map(Plant::getName).toList();
    plants.deletePlant(own);
    List<List<Integer>> errors =
        List.of(
            outcome(() -> plants.createPlant(new NewPlant().id(Long.MAX_VALUE).name("other"))),
            outcome(() -> connect("wrong").listPlants(null, null)),
            outcome(() -> connect(System.getenv("READ_TOKEN")).deletePlant(1L)),
            outcome(() -> plants.deletePlant(own)));
    System.out.println(new Gson().toJson(Map.of("list", names, "errors", errors)));
    // OkHttp's threads would keep the process for a minute.
    System.exit(0);
  }
}
