// Loaded into each test process when no coverage is measured: tap adds its module loader, which coverage needs, to every
// child process, and each server and command of the tests would take several times as long to start.
import processOnSpawn from 'process-on-spawn';

processOnSpawn.removeAllListeners();
