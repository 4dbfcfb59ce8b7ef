// What is rendered for the collections of a service can be created, or the collection is refused.
import t from 'tap';
import { faultOf } from '../../scripts/generate/schema.js';

t.test('a field that cannot be a column is refused by its name', async (t) => {
  const fault = (...fields: string[]) => faultOf({ name: 'tasks', id: 'text', column: 'task', fields });
  t.equal(fault('title', 'done_2', '_links', 'café'), undefined);
  for (const taken of ['subject', 'id', 'task'])
    t.match(
      fault(taken),
      `tasks has a column ${taken} already: leave it out of the fields of the collection.`,
    );
  for (const strange of ['', 'due date', 'due-date', "it's", 'say "a"', 'a.b', '2nd', '$ref', 'x\0'])
    t.match(
      fault('title', strange),
      `${JSON.stringify(strange)} has characters that a column of tasks cannot`,
    );
  t.match(fault('order'), /^SQLite cannot create tasks \(near "order": syntax error\): choose other names/);
  t.match(fault('title', 'TITLE'), /^SQLite cannot create tasks \(duplicate column name: TITLE\)/);
});
