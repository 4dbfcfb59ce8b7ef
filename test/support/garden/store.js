// The store of the garden: two collections, whose migrations are rendered as those of any service.
/** @type {import('../../../dist/storage/interface.js').StoreDefinition} */
export const garden = {
  name: 'garden',
  collections: [
    { name: 'beds', id: 'int64', column: 'bed', fields: ['title'] },
    { name: 'tools', id: 'int64', column: 'tool', fields: [] },
    { name: 'labels', id: 'text', column: 'label', fields: [] },
  ],
  migrations: new URL('./migrations/', import.meta.url),
};
