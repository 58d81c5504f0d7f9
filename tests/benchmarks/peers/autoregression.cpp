// Poisson counts whose log rate is mu plus a stationary AR(1) of marginal sd exp(log_sd).
#include <TMB.hpp>
template <class Type>
Type objective_function<Type>::operator()() {
  DATA_VECTOR(y);
  PARAMETER(mu); PARAMETER(log_sd); PARAMETER(z); PARAMETER_VECTOR(a);
  Type rho = Type(2) / (Type(1) + exp(-z)) - Type(1);
  Type nll = density::SCALE(density::AR1(rho), exp(log_sd))(a);
  vector<Type> rate = exp(a + mu);
  nll -= dpois(y, rate, true).sum();
  return nll;
}
