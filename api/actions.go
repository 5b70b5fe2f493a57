package api

// Runs is what the run, governance and execution endpoints need of the run domain.
type Runs interface{}

func (s *Server) actionRoutes() []route { return nil }
