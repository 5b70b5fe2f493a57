package api

// Credentials is what the credential endpoints need of the vault.
type Credentials interface{}
