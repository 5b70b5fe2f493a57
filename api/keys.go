package api

// Keys is what the API-key endpoints need of the account domain.
type Keys interface{}
