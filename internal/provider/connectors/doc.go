// Package connectors turns an OpenAPI 3.0 or 3.1 document into verbs, and the
// call of a verb into one HTTP request that is sent once.
//
// The catalog calls Import and stores each verb's Schema and Plan. A run calls
// CompileSchema and Validate for the arguments, BuildRequest and Apply for the
// request, Client.Send for the one attempt, and ResultObject for the answer.
//
// The package has no state, touches no database and follows no reference out of
// the document: nothing is read from a file or fetched. It never decides whether
// a call may be repeated; Outcome says what is known and the caller decides.
package connectors
