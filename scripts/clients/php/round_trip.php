<?php
// The round trip of ../run.js with openapi-generator's client for PHP, on 64 bits.
use OpenAPI\Client\Api\PlantsApi;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model\NewPlant;

// Debian's packages of Guzzle, and the client's classes, which Composer would load.
require 'GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class) {
    require __DIR__ . '/client/lib/' . str_replace(['OpenAPI\\Client\\', '\\'], ['', '/'], $class) . '.php';
});

function connect(string $token): PlantsApi
{
    $configuration = (new Configuration())->setHost(getenv('BASE_URL'))->setAccessToken($token);
    return new PlantsApi(null, $configuration);
}

function plant(int $id, string $name): NewPlant
{
    return new NewPlant(['id' => $id, 'name' => $name]);
}

// docs: hide
/** The status, and the code of the error that the body contains. */
function statusAndCode(callable $call): array
{
    try {
        $call();
    } catch (ApiException $exception) {
        return [$exception->getCode(), $exception->getResponseObject()->getError()];
    }
    return [0, 0];
}
// docs: show

$plants = connect(getenv('TOKEN'));
$own = 2 ** 53 + 1;
$plants->createPlant(plant($own, 'own'));
$plants->createPlant(plant(PHP_INT_MAX, 'max'));
$list = array_map(fn ($plant) => $plant->getName(), $plants->listPlants(3));
$plants->deletePlant($own);
// docs: hide
echo json_encode(['list' => $list, 'errors' => [
    statusAndCode(fn () => $plants->createPlant(plant(PHP_INT_MAX, 'other'))),
    statusAndCode(fn () => connect('wrong')->listPlants()),
    statusAndCode(fn () => connect(getenv('READ_TOKEN'))->deletePlant(1)),
    statusAndCode(fn () => $plants->deletePlant($own)),
]]);
// docs: show
