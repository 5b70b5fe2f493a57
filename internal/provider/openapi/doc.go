// Package openapi turns a document of OpenAPI 3.0 or 3.1 or of Swagger 2.0, in JSON or YAML, into
// verbs. The service that imports providers calls Import; the catalog stores each verb's schema and plan.
//
// What is wrong with one operation is reported and never fails the document. The package has
// no state and touches no database. References lead within the document, or to the files of an
// archive that the document is: nothing is read from a disk or fetched. It calls no provider; package httpcall does.
package openapi
