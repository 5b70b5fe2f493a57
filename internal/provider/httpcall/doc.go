// Package httpcall turns the call of a verb into one HTTP request and sends it once.
// Dispatch calls BuildRequest and Apply for the request, Client.Send for the attempt, and
// ResultObject for the answer.
//
// The package has no state and touches no database. It never decides whether a call may be
// repeated: an Outcome says what is known, and the run decides.
package httpcall
