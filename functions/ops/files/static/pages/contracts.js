// @ts-check
/** The contracts of hired work. */
export { openContracts as open } from "./hired.js";
export const title = "Contracts";
