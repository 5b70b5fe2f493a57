package api

// Providers is what the provider endpoints need.
type Providers interface{}
