// @ts-check
/** The pages of the console: address, name, whether it stands in the menu, module. A page is loaded when it is first opened. */

import { load } from "./load.js";

/** @type {{ path: string, name: string, key?: string, page: () => Promise<import("./router.js").Page> }[]} `key`: after `g`, and in the menu */
export const ROUTES = [
  { path: "/now", name: "Now", key: "n", page: () => load("pages/now.js") },
  { path: "/executions", name: "Executions", key: "e", page: () => load("pages/executions.js") },
  { path: "/executions/:id", name: "Execution", page: () => load("pages/execution.js") },
  { path: "/inbox", name: "Inbox", key: "i", page: () => load("pages/inbox.js") },
  { path: "/inbox/:execution/:step", name: "Approval", page: () => load("pages/approval.js") },
  { path: "/pieces", name: "Pieces", key: "p", page: () => load("pages/pieces.js") },
  { path: "/pieces/:key", name: "Piece", page: () => load("pages/piece.js") },
  { path: "/verdicts", name: "Verdicts", page: () => load("pages/verdicts.js") },
  { path: "/hired", name: "Hired work", key: "h", page: () => load("pages/hired.js") },
  { path: "/hired/contracts", name: "Contracts", page: () => load("pages/contracts.js") },
  { path: "/hired/money", name: "Money", page: () => load("pages/money.js") },
  { path: "/hired/:contract", name: "Task", page: () => load("pages/task.js") },
  { path: "/agents", name: "Agents", key: "a", page: () => load("pages/agents.js") },
  { path: "/policy", name: "Policy", key: "y", page: () => load("pages/policy.js") },
  { path: "/operations", name: "Operations", key: "o", page: () => load("pages/operations.js") },
  { path: "/find", name: "Search", page: () => load("pages/find.js") },
];
