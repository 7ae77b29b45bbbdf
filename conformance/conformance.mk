# Targets of the nested module conformance/.

.PHONY: conformance
conformance: ## hold both authorizers against Kubernetes' own for all supported minors (HISTORIES=20000, MUTATIONS=8)
	cd conformance && $(GO) run ./cmd/conform run -histories '$(or $(HISTORIES),20000)' -mutations '$(or $(MUTATIONS),8)'

.PHONY: conformance-latest
conformance-latest: ## say what the newest patches of Kubernetes changed in a decision
	cd conformance && $(GO) run ./cmd/conform latest -histories '$(or $(HISTORIES),4000)'

.PHONY: mutation
mutation: ## plant errors in nodeauthz and see that the comparison finds each
	cd conformance && $(GO) run ./cmd/conform mutation -mutations -1
