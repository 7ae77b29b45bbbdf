# Targets of the nested module conformance/.

.PHONY: conformance
conformance: ## hold both authorizers against Kubernetes' own: 20,000 histories, 1,000 of the minors in between (HISTORIES=20000 CONFORMANCE_MINORS=36,37)
	cd conformance && $(GO) run ./cmd/conform run -page '' -histories '$(or $(HISTORIES),20000)' -between '$(or $(BETWEEN),1000)' -minors '$(CONFORMANCE_MINORS)' -mutations '$(or $(MUTATIONS),0)'

# For the night: every minor in full, and the page.
.PHONY: conformance-full
conformance-full: ## hold both authorizers against Kubernetes' own for all supported minors and write the page (HISTORIES=20000, MUTATIONS=8)
	cd conformance && $(GO) run ./cmd/conform run -histories '$(or $(HISTORIES),20000)' -mutations '$(or $(MUTATIONS),8)'

.PHONY: conformance-latest
conformance-latest: ## say what the newest patches of Kubernetes changed in a decision
	cd conformance && $(GO) run ./cmd/conform latest -histories '$(or $(HISTORIES),4000)'

.PHONY: mutation
mutation: ## plant errors in nodeauthz and see that the comparison finds each
	cd conformance && $(GO) run ./cmd/conform mutation -mutations -1

.PHONY: conformance-admission
conformance-admission: ## hold nodeadmission against Kubernetes' own NodeRestriction for all supported minors (WRITES=2000000, MUTATIONS=-1, ADMISSION_MINORS=36,37)
	cd conformance && $(GO) run ./cmd/conform admission -writes '$(or $(WRITES),2000000)' -mutations '$(or $(MUTATIONS),-1)' -minors '$(ADMISSION_MINORS)'
