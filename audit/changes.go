package audit

// ChangesState is whether the event, by its verb and object, tells of a change of the objects that the state holds.
func ChangesState(ev *Event) bool {
	return stateVerb(ev.Verb) && stateKind(ev.ObjectRef.Resource, ev.ObjectRef.Subresource)
}
