package dashboards

// All returns the dashboards in the order of their links.
func All() []*Dashboard { return []*Dashboard{migration(), detections(), node(), self()} }
