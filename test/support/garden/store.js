// The store of the garden: two collections, whose migrations are rendered as those of any service.
/** @type {import('../../../dist/domain/storage.js').StoreDefinition} */
export const garden = {
  name: 'garden',
  collections: [
    { name: 'beds', column: 'bed', fields: ['title'] },
    { name: 'tools', column: 'tool', fields: [] },
  ],
  migrations: new URL('./migrations/', import.meta.url),
};
