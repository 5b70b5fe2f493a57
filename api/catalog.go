package api

// Catalog is what the catalog endpoints need of the catalog domain.
type Catalog interface{}
