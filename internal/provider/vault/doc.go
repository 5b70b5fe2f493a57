// Package vault keeps the credentials with which providers are called: sealed in
// two layers at rest, write-only over the API, bound to one tenant, and opened
// only by the activity that sends a request.
//
// The api package calls it to manage credentials. Dispatch finds the credential of a call
// with QueueNewest and opens it with Resolve, at the moment of sending. The package never
// returns a secret in anything that is printed, logged or encoded, and never sends one
// anywhere itself.
package vault
