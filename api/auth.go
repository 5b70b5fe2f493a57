package api

// Accounts is what the auth endpoints need of the account domain.
type Accounts interface{}
