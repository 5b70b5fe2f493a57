package api

import "slices"

// routes is the whole surface: every endpoint with the credential and permission
// it takes. The OpenAPI document lists the same ones; a test compares the two and
// walks each row with every kind of credential.
func (s *Server) routes() []route {
	return slices.Concat(
		s.authRoutes(),
		s.keyRoutes(),
		s.actionRoutes(),
		s.executionRoutes(),
		s.approvalRoutes(),
		s.catalogRoutes(),
		s.providerRoutes(),
		s.credentialRoutes(),
	)
}
