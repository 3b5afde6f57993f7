"""CPU kernels of PyTorch 2.13.0 that check the sizes of their arguments, some with the help of `size_checks.py`.

Written by `python -m reliability.kernels --write`; do not edit. Each was called with sizes that do not fit, in memory
that ends where its tensors end, and none read or wrote past it.
"""
# ruff: noqa: SIM905
# fmt: off

from __future__ import annotations

CHECKING_KERNELS = frozenset("""
aten.__iand__.Tensor aten.__ior__.Tensor aten._adaptive_avg_pool2d.default aten._adaptive_avg_pool3d.default
aten._batch_norm_impl_index.default aten._batch_norm_no_update.default aten._batch_norm_with_update.default
aten._cast_Byte.default aten._cast_Char.default aten._cast_Double.default aten._cast_Float.default
aten._cast_Half.default aten._cast_Int.default aten._cast_Long.default aten._cast_Short.default
aten._cdist_forward.default aten._chunk_cat.default aten._conj.default aten._conj_physical.default
aten._convolution.default aten._convolution_mode.default aten._ctc_loss.Tensor aten._ctc_loss.default
aten._dim_arange.default aten._embedding_bag.default aten._embedding_bag_forward_only.default
aten._fake_quantize_learnable_per_channel_affine.default
aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default aten._fft_c2c.default aten._fft_c2r.default
aten._fft_r2c.default aten._fused_rms_norm.default aten._grid_sampler_2d_cpu_fallback.default
aten._histogramdd_bin_edges.default aten._histogramdd_from_bin_cts.default aten._histogramdd_from_bin_tensors.default
aten._int_mm.default aten._linalg_check_errors.default aten._linalg_det.default aten._linalg_eigh.default
aten._linalg_slogdet.default aten._linalg_solve_ex.default aten._linalg_svd.default aten._local_scalar_dense.default
aten._log_softmax.default aten._lu_with_info.default aten._native_batch_norm_legit.default
aten._native_batch_norm_legit.no_stats aten._native_batch_norm_legit_functional.default
aten._native_batch_norm_legit_no_training.default aten._native_multi_head_attention.default aten._neg_view.default
aten._neg_view_copy.default aten._nnpack_spatial_convolution.default aten._pack_padded_sequence.default
aten._pad_circular.default aten._pad_packed_sequence.default aten._pdist_forward.default aten._prelu_kernel.default
aten._reshape_alias.default aten._safe_softmax.default aten._scaled_dot_product_attention_math.default
aten._scaled_dot_product_flash_attention_for_cpu.default aten._shape_as_tensor.default
aten._slow_conv2d_forward.default aten._softmax.default aten._softmax_backward_data.default aten._sparse_mm.reduce
aten._sparse_mm_reduce_impl.default aten._to_copy.default aten._to_sparse.default aten._to_sparse.sparse_dim
aten._transformer_encoder_layer_fwd.default aten._trilinear.default aten._unique.default aten._unsafe_index.Tensor
aten._unsafe_index_put.default aten._unsafe_masked_index.default aten._unsafe_masked_index_put_accumulate.default
aten._unsafe_view.default aten._upsample_bilinear2d_aa.vec aten._upsample_nearest_exact1d.vec
aten._upsample_nearest_exact2d.vec aten._upsample_nearest_exact3d.vec aten._weight_int8pack_mm.default
aten._weight_norm.default aten._weight_norm_interface.default aten.abs.default aten.absolute.default aten.acos.default
aten.acosh.default aten.adaptive_avg_pool1d.default aten.adaptive_avg_pool2d.default aten.adaptive_avg_pool3d.default
aten.adaptive_max_pool1d.default aten.adaptive_max_pool2d.default aten.adaptive_max_pool3d.default aten.add.Scalar
aten.add.Tensor aten.add_.Scalar aten.add_.Tensor aten.addbmm.default aten.addcdiv.default aten.addcmul.default
aten.addmm.default aten.addmv.default aten.addr.default aten.adjoint.default aten.affine_grid_generator.default
aten.alias.default aten.alias_copy.default aten.all.default aten.all.dim aten.all.dims aten.allclose.default
aten.alpha_dropout.default aten.amax.default aten.amin.default aten.aminmax.default aten.angle.default
aten.any.default aten.any.dim aten.any.dims aten.arange.default aten.arange.start aten.arange.start_step
aten.arccos.default aten.arccosh.default aten.arcsin.default aten.arcsinh.default aten.arctan.default
aten.arctan2.default aten.arctanh.default aten.argmax.default aten.argmin.default aten.argsort.default
aten.argsort.stable aten.argwhere.default aten.as_strided.default aten.as_strided_copy.default
aten.as_strided_scatter.default aten.asin.default aten.asinh.default aten.atan.default aten.atan2.default
aten.atanh.default aten.atleast_1d.Sequence aten.atleast_1d.default aten.atleast_2d.Sequence aten.atleast_2d.default
aten.atleast_3d.Sequence aten.atleast_3d.default aten.avg_pool1d.default aten.avg_pool2d.default
aten.avg_pool3d.default aten.baddbmm.default aten.bartlett_window.default aten.bartlett_window.periodic
aten.batch_norm.default aten.batch_norm_update_stats.default aten.bernoulli.Tensor aten.bernoulli.default
aten.bernoulli.p aten.bilinear.default aten.binary_cross_entropy.default aten.binary_cross_entropy_with_logits.default
aten.bincount.default aten.bitwise_and.Tensor aten.bitwise_and_.Tensor aten.bitwise_left_shift.Tensor
aten.bitwise_not.default aten.bitwise_or.Tensor aten.bitwise_or_.Tensor aten.bitwise_right_shift.Tensor
aten.bitwise_xor.Tensor aten.blackman_window.default aten.blackman_window.periodic aten.block_diag.default
aten.bmm.default aten.broadcast_tensors.default aten.broadcast_to.default aten.bucketize.Tensor
aten.cartesian_prod.default aten.cat.default aten.cauchy.default aten.cauchy_.default aten.cdist.default
aten.ceil.default aten.ceil_.default aten.celu.default aten.chalf.default aten.channel_shuffle.default
aten.cholesky.default aten.cholesky_inverse.default aten.cholesky_solve.default aten.chunk.default aten.clamp.Tensor
aten.clamp.default aten.clamp_.default aten.clamp_max.Tensor aten.clamp_max.default aten.clamp_min.Tensor
aten.clamp_min.default aten.clamp_min_.Tensor aten.clamp_min_.default aten.clone.default aten.col2im.default
aten.column_stack.default aten.combinations.default aten.complex.default aten.concat.default aten.concatenate.default
aten.conj.default aten.conj_physical.default aten.constant_pad_nd.default aten.contiguous.default aten.conv1d.default
aten.conv1d.padding aten.conv2d.default aten.conv2d.padding aten.conv3d.default aten.conv3d.padding
aten.conv_tbc.default aten.conv_transpose1d.default aten.conv_transpose2d.input aten.conv_transpose3d.input
aten.convolution.default aten.copy.default aten.copy_.default aten.copysign.Scalar aten.copysign.Tensor
aten.corrcoef.default aten.cos.default aten.cosh.default aten.cosine_embedding_loss.default
aten.cosine_similarity.default aten.count_nonzero.default aten.count_nonzero.dim_IntList aten.cov.default
aten.cross.default aten.cross_entropy_loss.default aten.ctc_loss.IntList aten.ctc_loss.Tensor aten.cummax.default
aten.cummin.default aten.cumprod.default aten.cumsum.default aten.cumulative_trapezoid.dx aten.cumulative_trapezoid.x
aten.deg2rad.default aten.dequantize.self aten.detach.default aten.detach_.default aten.detach_copy.default
aten.diag.default aten.diag_embed.default aten.diagflat.default aten.diagonal.default aten.diagonal_copy.default
aten.diagonal_scatter.default aten.diff.default aten.digamma.default aten.dist.default aten.div.Scalar aten.div.Tensor
aten.div.Tensor_mode aten.divide.Scalar aten.divide.Tensor aten.dot.default aten.dropout.default aten.dsplit.array
aten.dsplit.int aten.dstack.default aten.einsum.default aten.elu.default aten.embedding.default
aten.embedding_bag.default aten.embedding_bag.padding_idx aten.embedding_renorm_.default aten.empty.memory_format
aten.empty_like.default aten.empty_permuted.default aten.empty_strided.default aten.eq.Scalar aten.eq.Tensor
aten.equal.default aten.erf.default aten.erfc.default aten.erfinv.default aten.exp.default aten.exp2.default
aten.expand.default aten.expand_as.default aten.expand_copy.default aten.expm1.default aten.exponential.default
aten.exponential_.default aten.eye.default aten.eye.m aten.fake_quantize_per_channel_affine.default
aten.fake_quantize_per_channel_affine_cachemask.default aten.fake_quantize_per_tensor_affine.default
aten.fake_quantize_per_tensor_affine.tensor_qparams aten.fake_quantize_per_tensor_affine_cachemask.default
aten.feature_alpha_dropout.default aten.feature_dropout.default aten.fft_fft.default aten.fft_fft2.default
aten.fft_fftfreq.default aten.fft_fftn.default aten.fft_fftshift.default aten.fft_hfft.default aten.fft_hfft2.default
aten.fft_hfftn.default aten.fft_ifft.default aten.fft_ifft2.default aten.fft_ifftn.default aten.fft_ifftshift.default
aten.fft_ihfft.default aten.fft_ihfft2.default aten.fft_ihfftn.default aten.fft_irfft.default aten.fft_irfft2.default
aten.fft_irfftn.default aten.fft_rfft.default aten.fft_rfft2.default aten.fft_rfftfreq.default aten.fft_rfftn.default
aten.fill.Scalar aten.fill_.Scalar aten.fix.default aten.flatten.using_ints aten.flip.default aten.fliplr.default
aten.flipud.default aten.float_power.Scalar aten.float_power.Tensor_Scalar aten.float_power.Tensor_Tensor
aten.floor.default aten.floor_divide.Scalar aten.floor_divide.default aten.fmax.default aten.fmin.default
aten.fmod.Scalar aten.fmod.Tensor aten.frac.default aten.fractional_max_pool2d.default
aten.fractional_max_pool3d.default aten.frexp.Tensor aten.full.default aten.full_like.default aten.gather.default
aten.gcd.default aten.ge.Scalar aten.ge.Tensor aten.gelu.default aten.geometric.default aten.geometric_.default
aten.geqrf.default aten.glu.default aten.gradient.scalarint aten.gradient.scalarrayarray aten.gradient.scalarrayint
aten.gradient.tensorarray aten.greater.Scalar aten.greater.Tensor aten.greater_equal.Scalar aten.greater_equal.Tensor
aten.grid_sampler.default aten.grid_sampler_2d.default aten.grid_sampler_3d.default aten.group_norm.default
aten.gru.data aten.gru.input aten.gru_cell.default aten.gt.Scalar aten.gt.Tensor aten.hamming_window.default
aten.hamming_window.periodic aten.hamming_window.periodic_alpha aten.hamming_window.periodic_alpha_beta
aten.hann_window.default aten.hann_window.periodic aten.hardshrink.default aten.hardsigmoid.default
aten.hardswish.default aten.hardtanh.default aten.hash_tensor.default aten.heaviside.default
aten.hinge_embedding_loss.default aten.histc.default aten.histogram.bin_ct aten.histogram.bins_tensor
aten.histogramdd.TensorList_bins aten.histogramdd.default aten.hsplit.array aten.hsplit.int aten.hstack.default
aten.huber_loss.default aten.hypot.default aten.i0.default aten.igamma.default aten.igammac.default
aten.im2col.default aten.imag.default aten.index.Tensor aten.index_add.default aten.index_copy.default
aten.index_fill.int_Scalar aten.index_fill.int_Tensor aten.index_put.default aten.index_reduce.default
aten.index_select.default aten.inner.default aten.instance_norm.default aten.int_repr.default aten.isclose.default
aten.isfinite.default aten.isin.Scalar_Tensor aten.isin.Tensor_Scalar aten.isin.Tensor_Tensor aten.isinf.default
aten.isnan.default aten.isneginf.default aten.isposinf.default aten.isreal.default aten.istft.default
aten.item.default aten.kaiser_window.beta aten.kaiser_window.default aten.kaiser_window.periodic aten.kl_div.default
aten.kron.default aten.kthvalue.default aten.l1_loss.default aten.layer_norm.default aten.lcm.default
aten.ldexp.Tensor aten.le.Scalar aten.le.Tensor aten.leaky_relu.default aten.lerp.Scalar aten.lerp.Tensor
aten.lerp_.Tensor aten.less.Scalar aten.less.Tensor aten.less_equal.Scalar aten.less_equal.Tensor aten.lgamma.default
aten.lift.default aten.lift_fresh.default aten.lift_fresh_copy.default aten.linalg_cholesky.default
aten.linalg_cholesky_ex.default aten.linalg_cond.default aten.linalg_cross.default aten.linalg_det.default
aten.linalg_diagonal.default aten.linalg_eig.default aten.linalg_eigh.default aten.linalg_eigvals.default
aten.linalg_eigvalsh.default aten.linalg_householder_product.default aten.linalg_inv.default
aten.linalg_inv_ex.default aten.linalg_ldl_factor.default aten.linalg_ldl_factor_ex.default
aten.linalg_ldl_solve.default aten.linalg_lstsq.default aten.linalg_lu.default aten.linalg_lu_factor.default
aten.linalg_lu_factor_ex.default aten.linalg_lu_solve.default aten.linalg_matrix_exp.default
aten.linalg_matrix_norm.default aten.linalg_matrix_norm.str_ord aten.linalg_matrix_power.default
aten.linalg_matrix_rank.atol_rtol_float aten.linalg_matrix_rank.atol_rtol_tensor aten.linalg_multi_dot.default
aten.linalg_norm.default aten.linalg_pinv.atol_rtol_float aten.linalg_pinv.atol_rtol_tensor aten.linalg_pinv.default
aten.linalg_qr.default aten.linalg_slogdet.default aten.linalg_solve.default aten.linalg_solve_ex.default
aten.linalg_solve_triangular.default aten.linalg_svd.default aten.linalg_svdvals.default aten.linalg_tensorinv.default
aten.linalg_tensorsolve.default aten.linalg_vander.default aten.linalg_vecdot.default aten.linalg_vector_norm.default
aten.linear.default aten.linspace.Scalar_Tensor aten.linspace.Tensor_Scalar aten.linspace.Tensor_Tensor
aten.linspace.default aten.log.default aten.log10.default aten.log1p.default aten.log2.default aten.log_normal.default
aten.log_normal_.default aten.log_sigmoid.default aten.log_sigmoid_forward.default aten.log_softmax.int
aten.logaddexp.default aten.logaddexp2.default aten.logcumsumexp.default aten.logdet.default aten.logical_and.default
aten.logical_not.default aten.logical_not_.default aten.logical_or.default aten.logical_xor.default aten.logit.default
aten.logspace.Scalar_Tensor aten.logspace.Tensor_Scalar aten.logspace.Tensor_Tensor aten.logspace.default
aten.logsumexp.default aten.lstm.data aten.lstm.input aten.lstm_cell.default aten.lt.Scalar aten.lt.Tensor
aten.lu_solve.default aten.lu_unpack.default aten.mH.default aten.mT.default aten.margin_ranking_loss.default
aten.masked_fill.Scalar aten.masked_fill.Tensor aten.masked_fill_.Scalar aten.masked_scatter.default
aten.masked_select.default aten.matmul.default aten.matrix_H.default aten.matrix_exp.default aten.max.default
aten.max.dim aten.max.other aten.max_pool1d.default aten.max_pool1d_with_indices.default aten.max_pool2d.default
aten.max_pool2d_with_indices.default aten.max_pool3d.default aten.max_pool3d_with_indices.default
aten.max_unpool2d.default aten.max_unpool3d.default aten.maximum.default aten.mean.default aten.mean.dim
aten.median.default aten.median.dim aten.meshgrid.indexing aten.min.default aten.min.dim aten.min.other
aten.minimum.default aten.mish.default aten.mkldnn_convolution.default aten.mkldnn_rnn_layer.default aten.mm.default
aten.mode.default aten.moveaxis.int aten.moveaxis.intlist aten.movedim.int aten.movedim.intlist aten.mse_loss.default
aten.msort.default aten.mul.Scalar aten.mul.Tensor aten.mul_.Tensor aten.multi_margin_loss.default
aten.multilabel_margin_loss.default aten.multilabel_margin_loss_forward.default aten.multinomial.default
aten.multiply.Scalar aten.multiply.Tensor aten.mv.default aten.mvlgamma.default aten.nan_to_num.default
aten.nanmean.default aten.nanmedian.default aten.nanmedian.dim aten.nanquantile.scalar aten.nansum.default
aten.narrow.Tensor aten.narrow.default aten.narrow_copy.default aten.native_batch_norm.default
aten.native_dropout.default aten.native_dropout_backward.default aten.native_group_norm.default
aten.native_layer_norm.default aten.ne.Scalar aten.ne.Tensor aten.neg.default aten.negative.default
aten.new_empty.default aten.new_empty_strided.default aten.new_full.default aten.new_ones.default
aten.new_zeros.default aten.nextafter.default aten.nll_loss.default aten.nll_loss2d.default
aten.nll_loss2d_forward.default aten.nll_loss_forward.default aten.nll_loss_nd.default aten.nonzero.default
aten.nonzero_numpy.default aten.nonzero_static.default aten.norm.Scalar aten.norm.ScalarOpt_dim
aten.normal.Tensor_Tensor aten.normal.Tensor_float aten.normal.float_Tensor aten.normal.float_float
aten.normal_.default aten.normal_functional.default aten.not_equal.Scalar aten.not_equal.Tensor aten.numpy_T.default
aten.one_hot.default aten.ones.default aten.ones_like.default aten.ormqr.default aten.outer.default aten.pad.default
aten.pad_sequence.default aten.pairwise_distance.default aten.pdist.default aten.permute.default
aten.permute_copy.default aten.pinverse.default aten.pixel_shuffle.default aten.pixel_unshuffle.default
aten.poisson_nll_loss.default aten.polar.default aten.polygamma.default aten.positive.default aten.pow.Scalar
aten.pow.Tensor_Scalar aten.pow.Tensor_Tensor aten.prelu.default aten.prod.default aten.prod.dim_int aten.put.default
aten.qr.default aten.quantile.scalar aten.quantize_per_channel.default aten.quantize_per_tensor.default
aten.quantized_gru.input aten.rad2deg.default aten.rand.default aten.rand_like.default aten.randint.default
aten.randint.low aten.randint_like.default aten.randint_like.low_dtype aten.randn.default aten.randn_like.default
aten.randperm.default aten.ravel.default aten.real.default aten.reciprocal.default aten.reflection_pad1d.default
aten.relu.default aten.relu6.default aten.remainder.Scalar aten.remainder.Scalar_Tensor aten.remainder.Tensor
aten.renorm.default aten.repeat.default aten.repeat_interleave.Tensor aten.repeat_interleave.self_Tensor
aten.repeat_interleave.self_int aten.reshape.default aten.reshape_as.default aten.resize_.default
aten.resize_as_.default aten.resolve_conj.default aten.resolve_neg.default aten.result_type.Tensor
aten.rms_norm.default aten.rnn_relu.input aten.rnn_relu_cell.default aten.rnn_tanh.data aten.rnn_tanh.input
aten.rnn_tanh_cell.default aten.roll.default aten.rot90.default aten.round.decimals aten.round.default
aten.row_stack.default aten.rrelu.default aten.rrelu_with_noise.default aten.rsqrt.default aten.rsub.Scalar
aten.rsub.Tensor aten.scalar_tensor.default aten.scaled_dot_product_attention.default aten.scatter.reduce
aten.scatter.src aten.scatter.value aten.scatter.value_reduce aten.scatter_add.default aten.scatter_reduce.two
aten.searchsorted.Tensor aten.segment_reduce.default aten.select.int aten.select_copy.int aten.select_scatter.default
aten.selu.default aten.set_.source_Tensor aten.sgn.default aten.sigmoid.default aten.sigmoid_.default
aten.sign.default aten.signbit.default aten.silu.default aten.sin.default aten.sinc.default aten.sinh.default
aten.slice.Tensor aten.slice_copy.Tensor aten.slice_scatter.default aten.slow_conv3d.default
aten.slow_conv3d_forward.default aten.slow_conv_transpose2d.default aten.smooth_l1_loss.default
aten.soft_margin_loss.default aten.softmax.int aten.softplus.default aten.softshrink.default aten.sort.default
aten.sort.stable aten.sparse_sampled_addmm.default aten.special_airy_ai.default aten.special_bessel_j0.default
aten.special_bessel_j1.default aten.special_bessel_y0.default aten.special_bessel_y1.default
aten.special_chebyshev_polynomial_t.default aten.special_chebyshev_polynomial_t.n_scalar
aten.special_chebyshev_polynomial_t.x_scalar aten.special_chebyshev_polynomial_u.default
aten.special_chebyshev_polynomial_u.n_scalar aten.special_chebyshev_polynomial_u.x_scalar
aten.special_chebyshev_polynomial_v.default aten.special_chebyshev_polynomial_v.n_scalar
aten.special_chebyshev_polynomial_v.x_scalar aten.special_chebyshev_polynomial_w.default
aten.special_chebyshev_polynomial_w.n_scalar aten.special_chebyshev_polynomial_w.x_scalar aten.special_digamma.default
aten.special_entr.default aten.special_erf.default aten.special_erfc.default aten.special_erfcx.default
aten.special_erfinv.default aten.special_exp2.default aten.special_expit.default aten.special_expm1.default
aten.special_gammainc.default aten.special_gammaincc.default aten.special_gammaln.default
aten.special_hermite_polynomial_h.default aten.special_hermite_polynomial_h.n_scalar
aten.special_hermite_polynomial_h.x_scalar aten.special_hermite_polynomial_he.default
aten.special_hermite_polynomial_he.n_scalar aten.special_hermite_polynomial_he.x_scalar aten.special_i0.default
aten.special_i0e.default aten.special_i1.default aten.special_i1e.default aten.special_laguerre_polynomial_l.default
aten.special_laguerre_polynomial_l.n_scalar aten.special_laguerre_polynomial_l.x_scalar
aten.special_legendre_polynomial_p.default aten.special_legendre_polynomial_p.n_scalar
aten.special_legendre_polynomial_p.x_scalar aten.special_log1p.default aten.special_log_ndtr.default
aten.special_log_softmax.default aten.special_logit.default aten.special_logsumexp.default
aten.special_modified_bessel_i0.default aten.special_modified_bessel_i1.default
aten.special_modified_bessel_k0.default aten.special_modified_bessel_k1.default aten.special_ndtr.default
aten.special_ndtri.default aten.special_polygamma.default aten.special_psi.default aten.special_round.default
aten.special_scaled_modified_bessel_k0.default aten.special_scaled_modified_bessel_k1.default
aten.special_shifted_chebyshev_polynomial_t.default aten.special_shifted_chebyshev_polynomial_t.n_scalar
aten.special_shifted_chebyshev_polynomial_t.x_scalar aten.special_shifted_chebyshev_polynomial_u.default
aten.special_shifted_chebyshev_polynomial_u.n_scalar aten.special_shifted_chebyshev_polynomial_u.x_scalar
aten.special_shifted_chebyshev_polynomial_v.default aten.special_shifted_chebyshev_polynomial_v.n_scalar
aten.special_shifted_chebyshev_polynomial_v.x_scalar aten.special_shifted_chebyshev_polynomial_w.default
aten.special_shifted_chebyshev_polynomial_w.n_scalar aten.special_shifted_chebyshev_polynomial_w.x_scalar
aten.special_sinc.default aten.special_softmax.default aten.special_spherical_bessel_j0.default
aten.special_xlog1py.default aten.special_xlog1py.other_scalar aten.special_xlog1py.self_scalar
aten.special_xlogy.default aten.special_xlogy.other_scalar aten.special_xlogy.self_scalar aten.special_zeta.default
aten.special_zeta.other_scalar aten.special_zeta.self_scalar aten.split.Tensor aten.split_with_sizes.default
aten.split_with_sizes_copy.default aten.sqrt.default aten.sqrt_.default aten.square.default aten.squeeze.default
aten.squeeze.dim aten.squeeze.dims aten.squeeze_.dim aten.squeeze_copy.default aten.squeeze_copy.dim
aten.squeeze_copy.dims aten.stack.default aten.std.correction aten.std.default aten.std.dim aten.std_mean.correction
aten.std_mean.default aten.std_mean.dim aten.stft.center aten.stft.default aten.sub.Scalar aten.sub.Tensor
aten.sub_.Tensor aten.subtract.Scalar aten.subtract.Tensor aten.sum.default aten.sum.dim_IntList
aten.sum_to_size.default aten.svd.default aten.swapaxes.default aten.swapdims.default aten.t.default
aten.t_copy.default aten.take.default aten.take_along_dim.default aten.tan.default aten.tanh.default
aten.tanh_.default aten.tensor_split.indices aten.tensor_split.sections aten.tensor_split.tensor_indices_or_sections
aten.tensordot.default aten.thnn_conv2d.default aten.threshold.default aten.tile.default aten.to.device aten.to.dtype
aten.to.dtype_layout aten.to.other aten.to.prim_dtype aten.to.prim_other aten.to_mkldnn.default aten.to_sparse.default
aten.to_sparse.sparse_dim aten.topk.default aten.trace.default aten.transpose.int aten.transpose_.default
aten.transpose_copy.int aten.trapezoid.dx aten.trapezoid.x aten.trapz.dx aten.trapz.x aten.triangular_solve.default
aten.tril.default aten.tril_indices.default aten.triplet_margin_loss.default aten.triu.default
aten.triu_indices.default aten.true_divide.Scalar aten.true_divide.Tensor aten.trunc.default aten.type_as.default
aten.unbind.int aten.unbind_copy.int aten.unflatten.int aten.unfold.default aten.unfold_copy.default
aten.uniform.default aten.uniform_.default aten.unique_consecutive.default aten.unique_dim.default
aten.unsafe_chunk.default aten.unsafe_split.Tensor aten.unsqueeze.default aten.unsqueeze_copy.default
aten.upsample_bicubic2d.vec aten.upsample_bilinear2d.vec aten.upsample_linear1d.vec aten.upsample_nearest1d.vec
aten.upsample_nearest2d.vec aten.upsample_nearest3d.vec aten.upsample_trilinear3d.vec aten.var.correction
aten.var.default aten.var.dim aten.var_mean.correction aten.var_mean.default aten.var_mean.dim aten.vdot.default
aten.view.default aten.view.dtype aten.view_as.default aten.view_as_complex.default aten.view_as_real.default
aten.view_copy.default aten.vsplit.array aten.vsplit.int aten.vstack.default aten.where.ScalarSelf aten.where.self
aten.xlogy.Scalar_Other aten.xlogy.Scalar_Self aten.xlogy.Tensor aten.zero.default aten.zero_.default
aten.zeros.default aten.zeros_like.default mkldnn._convolution_pointwise.default mkldnn._linear_pointwise.default
prims.bessel_i0.default prims.bessel_i0e.default prims.bessel_i1.default prims.bessel_i1e.default
prims.bessel_j0.default prims.bessel_j1.default prims.convert_element_type.default prims.digamma.default
prims.erf_inv.default prims.erfc.default prims.erfcx.default prims.frexp.default prims.igamma.default
prims.igammac.default prims.lgamma.default prims.ndtri.default prims.nextafter.default
prims.spherical_bessel_j0.default prims.zeta.default quantized.add.default quantized.batch_norm2d.default
quantized.cat.default quantized.conv2d.new quantized.embedding_bag_byte_prepack.default quantized.group_norm.default
quantized.instance_norm.default quantized.layer_norm.default quantized.linear.default quantized.linear_dynamic.default
quantized.linear_prepack.default quantized.mul.default torch_nn._linear_cross_entropy_batch_chunked.default
torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default
""".split())
