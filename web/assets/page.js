// What a page can do with a script that it cannot without: a theme that is kept, keys, updates, copying, local time.
(() => {
	"use strict";
	const root = document.documentElement;
	const kept = {
		get(key) { try { return localStorage.getItem(key); } catch { return null; } },
		set(key, value) { try { localStorage.setItem(key, value); } catch { /* a private window keeps nothing */ } },
	};
	root.classList.add("script");

	// The theme is set before anything is painted.
	const themes = ["system", "light", "dark"];
	let theme = themes.includes(kept.get("theme")) ? kept.get("theme") : "system";
	const showTheme = () => {
		if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
		const button = document.getElementById("theme");
		if (button) button.textContent = "Theme: " + theme;
	};
	showTheme();

	const say = (words) => { document.getElementById("said").textContent = words; };

	// Times in local time, when they are pointed at.
	const local = (event) => {
		const time = event.target.closest && event.target.closest("time[datetime]");
		if (!time || time.title) return;
		const at = new Date(time.dateTime);
		if (!isNaN(at)) time.title = at.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
	};

	// A button that copies, next to each block of commands and each value to copy.
	const copies = (within) => {
		for (const block of within.querySelectorAll(".commands")) {
			if (!block.querySelector("button")) block.append(copyButton(block.querySelector("code")));
		}
		for (const code of within.querySelectorAll("code.copy")) {
			if (!code.nextElementSibling) code.after(" ", copyButton(code));
		}
	};
	const copyButton = (code) => {
		const button = document.createElement("button");
		button.type = "button";
		button.className = "quiet";
		button.textContent = "Copy";
		button.addEventListener("click", async () => {
			try {
				await navigator.clipboard.writeText(code.textContent);
				button.textContent = "Copied";
				say("Copied");
			} catch { // without leave, or without TLS: what is selected can be copied with the keys of the system
				getSelection().selectAllChildren(code);
				say("Selected");
			}
			setTimeout(() => { button.textContent = "Copy"; }, 2000);
		});
		return button;
	};

	// Keys.
	let keysOn = kept.get("keys") !== "off";
	let going = 0;
	const rows = () => [...document.querySelectorAll("a[data-row]")].filter((a) => a.offsetParent !== null);
	const move = (by) => {
		const all = rows();
		if (!all.length) return;
		const now = all.indexOf(document.activeElement);
		const next = now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + by));
		all[next].focus();
		all[next].scrollIntoView({ block: "nearest" });
	};
	const onKey = (event) => {
		if (!keysOn || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
		if (event.target.closest("input, select, textarea, dialog, [contenteditable]")) return;
		if (going && Date.now() - going < 2000) {
			going = 0;
			const to = document.querySelector(`a[data-go="${CSS.escape(event.key)}"]`);
			if (to) { event.preventDefault(); to.click(); }
			return;
		}
		going = 0;
		switch (event.key) {
		case "/": {
			const search = document.getElementById("search");
			if (search) { event.preventDefault(); search.focus(); search.select(); }
			break;
		}
		case "j": move(1); break;
		case "k": move(-1); break;
		case "g": going = Date.now(); break;
		case "?": event.preventDefault(); document.getElementById("keys").showModal(); break;
		}
	};

	// Updates: the parts that changed are replaced, unless somebody is in them.
	const updates = () => {
		const parts = [...document.querySelectorAll("[data-live][id]")];
		const state = document.getElementById("live-state");
		const pause = document.getElementById("live-pause");
		if (!parts.length || !state) return;
		let paused = kept.get("updates") === "paused";
		const known = new Map(parts.map((part) => [part.id, part.outerHTML]));
		const title = () => document.querySelector("h1").textContent;
		const clock = () => new Date().toISOString().slice(11, 19) + " UTC";
		const busy = (part) => {
			const chosen = getSelection();
			return part.contains(document.activeElement) || (!chosen.isCollapsed && part.contains(chosen.anchorNode));
		};
		const show = () => {
			pause.textContent = paused ? "Resume updates" : "Pause updates";
			state.textContent = paused ? "Updates are paused." : "Updates by itself.";
		};
		let asking = false;
		const update = async () => {
			if (paused || asking || document.hidden) return;
			asking = true;
			try { await replace(); } finally { asking = false; }
		};
		const replace = async () => {
			let page;
			try {
				const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
				if (answer.redirected || answer.status === 401) { state.textContent = "Signed out: load the page again."; return; }
				if (!answer.ok) throw new Error(answer.status);
				page = new DOMParser().parseFromString(await answer.text(), "text/html");
			} catch {
				state.textContent = "Not updated: nodetrail does not answer (" + clock() + ").";
				return;
			}
			const before = title();
			for (const id of known.keys()) {
				const old = document.getElementById(id);
				const fresh = page.getElementById(id);
				if (!old || !fresh || fresh.outerHTML === known.get(id) || busy(old)) continue;
				known.set(id, fresh.outerHTML);
				const open = [...old.querySelectorAll("details[open][data-key]")].map((d) => d.dataset.key);
				for (const d of fresh.querySelectorAll("details[data-key]")) d.open = open.includes(d.dataset.key);
				old.replaceWith(document.adoptNode(fresh));
				copies(fresh);
				fresh.classList.add("fresh");
			}
			state.textContent = "Updated " + clock() + ".";
			if (title() !== before) {
				document.title = page.title;
				say(title());
			}
		};
		pause.addEventListener("click", () => {
			paused = !paused;
			kept.set("updates", paused ? "paused" : "on");
			show();
			if (!paused) update();
		});
		show();
		setInterval(update, 1000 * (Number(state.dataset.every) || 10));
		document.addEventListener("visibilitychange", update);
	};

	document.addEventListener("DOMContentLoaded", () => {
		showTheme();
		document.getElementById("theme").addEventListener("click", () => {
			theme = themes[(themes.indexOf(theme) + 1) % themes.length];
			kept.set("theme", theme);
			showTheme();
		});
		const keys = document.getElementById("keys");
		const on = document.getElementById("keys-on");
		on.checked = keysOn;
		on.addEventListener("change", () => { keysOn = on.checked; kept.set("keys", keysOn ? "on" : "off"); });
		document.getElementById("keys-open").addEventListener("click", () => keys.showModal());
		document.addEventListener("keydown", onKey);
		document.addEventListener("pointerover", local);
		document.addEventListener("focusin", local);
		updates(); // before copies: it compares what the server sent
		copies(document);
	});
})();
