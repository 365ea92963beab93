package runtime

import "slices"

// Filled are the names of the replicas that a plan starts at places where nothing
// ran, although something of the project did: what a person has to be told where
// the report of a restart is about what was replaced. observed is what the plan
// was made from.
func Filled(plan Plan, observed Observed) (names []string) {
	if !observed.Running {
		return nil
	}
	for _, s := range plan {
		runs := func(r Replica) bool { return r.Agent == s.Agent && r.Name == s.Replica && r.State != Gone }
		if s.Do == Start && !slices.ContainsFunc(observed.Replicas, runs) {
			names = append(names, s.Replica)
		}
	}
	return names
}
