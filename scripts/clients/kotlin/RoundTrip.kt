// The round trip of ../run.js with openapi-generator's client for Kotlin.
import kotlin.system.exitProcess
import org.openapitools.client.apis.PlantsApi
import org.openapitools.client.infrastructure.ApiClient
import org.openapitools.client.infrastructure.ClientError
import org.openapitools.client.infrastructure.ClientException
import org.openapitools.client.infrastructure.Serializer
import org.openapitools.client.models.Error
import org.openapitools.client.models.NewPlant

val plants = PlantsApi(System.getenv("BASE_URL"))
val json = Serializer.moshi

// docs: hide
/** The status, and the code of the error that the body contains. All clients of a process share one token. */
fun statusAndCode(token: String, call: () -> Unit): List<Int> {
    ApiClient.accessToken = token
    try {
        call()
    } catch (exception: ClientException) {
        val body = (exception.response as ClientError<*>).body as String
        return listOf(exception.statusCode, json.adapter(Error::class.java).fromJson(body)!!.error)
    }
    return listOf(0, 0)
}
// docs: show

fun main() {
    val token = System.getenv("TOKEN")
    val own = (1L shl 53) + 1
    ApiClient.accessToken = token
    plants.createPlant(NewPlant(own, "own"))
    plants.createPlant(NewPlant(Long.MAX_VALUE, "max"))
    val names = plants.listPlants(3).map { it.name }
    plants.deletePlant(own)
    // docs: hide
    val errors = listOf(
        statusAndCode(token) { plants.createPlant(NewPlant(Long.MAX_VALUE, "other")) },
        statusAndCode("wrong") { plants.listPlants() },
        statusAndCode(System.getenv("READ_TOKEN")) { plants.deletePlant(1) },
        statusAndCode(token) { plants.deletePlant(own) },
    )
    println(json.adapter(Any::class.java).toJson(mapOf("list" to names, "errors" to errors)))
    // OkHttp's threads would keep the process for a minute.
    exitProcess(0)
    // docs: show
}
